# The .deb: what it holds and needs; unpacked somewhere, it works.  Into a fresh Debian: root.sh.
build=$1
. "$(dirname "$0")/common.sh"

command -v dpkg-deb >/dev/null && command -v dpkg-shlibdeps >/dev/null || skip "dpkg-dev is not installed"
(cd "$build" && cpack -G DEB -B "$OLDPWD/packages") >log 2>&1 || fail "$(cat log)"
version=$("$build/opgap" --version | cut -d' ' -f2)
processor=$(dpkg --print-architecture)
same "packages" "opgap-dev_${version}_$processor.deb opgap_${version}_$processor.deb" \
  "$(cd packages && echo ./*.deb | sed 's#\./##g')"
program=packages/opgap_${version}_$processor.deb
development=packages/opgap-dev_${version}_$processor.deb

same "architecture, version" "$processor $version" "$(dpkg-deb -f "$program" Architecture) $(dpkg-deb -f "$program" Version)"
same "what opgap-dev needs" "opgap (= $version)" "$(dpkg-deb -f "$development" Depends)"
# exactly the libraries that the two files ask for, by package
readelf -d "$build/opgap" "$build/libopgap.so" | sed -n 's/.*NEEDED.*\[\(.*\)\]/\1/p' | sort -u >needed
for library in $(cat needed); do
  path=$(ldd "$build/opgap" "$build/libopgap.so" | awk -v l="$library" '$1 == l {print $3; exit} $1 ~ "/" l "$" {print $1; exit}')
  dpkg-query -S "$(realpath "$path")" 2>/dev/null || dpkg-query -S "$path"
done | sed 's/:.*//' | sort -u >owners
same "what opgap needs" "$(cat owners)" "$(dpkg-deb -f "$program" Depends | tr ',' '\n' | sed 's/^ *//; s/ .*//' | sort)"

same "files of opgap" "\
usr/bin/opgap
usr/lib/libopgap.so
usr/share/bash-completion/completions/opgap
usr/share/doc/opgap/changelog.gz
usr/share/doc/opgap/copyright
usr/share/fish/vendor_completions.d/opgap.fish
usr/share/lintian/overrides/opgap
usr/share/zsh/vendor-completions/_opgap" \
  "$(dpkg-deb -c "$program" | sed -n 's#^-.* \./##p' | grep -v '^usr/share/man/man1/opgap[a-z-]*\.1\.gz$' | LC_ALL=C sort)"
same "files of opgap-dev" "\
usr/include/opgap/opgap.h
usr/lib/cmake/opgap/opgapConfig.cmake
usr/lib/cmake/opgap/opgapConfigVersion.cmake
usr/lib/cmake/opgap/opgapTargets.cmake
usr/share/doc/opgap-dev/changelog.gz
usr/share/doc/opgap-dev/copyright
usr/share/pkgconfig/opgap.pc" \
  "$(dpkg-deb -c "$development" | sed -n 's#^-.* \./##p' | LC_ALL=C sort)"
if dpkg-deb -c "$program" | awk '$2 != "root/root" || substr($1, 6, 1) == "w" || substr($1, 9, 1) == "w"' | grep .; then
  fail "files that are not root's, or that others may write"
fi
if command -v lintian >/dev/null; then
  lintian --fail-on warning "$program" "$development" 2>lintian.err || fail "lintian finds faults"
else
  echo "left out: lintian (not installed)"
fi

dpkg-deb -x "$program" root
check_installation root/usr
