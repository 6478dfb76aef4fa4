# The .tar.gz: unpacked anywhere it works, and has its licence.
build=$1
. "$(dirname "$0")/common.sh"

(cd "$build" && cpack -G TGZ -B "$OLDPWD/packages") >log 2>&1 || fail "$(cat log)"
version=$("$build/opgap" --version | cut -d' ' -f2)
archive=opgap-$version-Linux-$(uname -m)
tar xzf "packages/$archive.tar.gz"
cmp "$archive/LICENSE" "$2/LICENSE"
same "what is on top" "LICENSE bin include lib share" "$(ls "$archive" | paste -sd ' ')"
check_installation "$archive"
