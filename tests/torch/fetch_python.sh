#!/bin/sh
# Makes a CPython of Debian unstable that runs beside the system, with the C library it was built for.
#
#   tests/torch/fetch_python.sh VERSION FOLDER     VERSION: 3.14, for example
#
# FOLDER/usr/bin/pythonVERSION then starts like any other program: its loader and its libraries are those in FOLDER.
# Nothing is installed and no root is needed; apt checks the signatures of what it fetches.  About 20 MB are loaded, 60 MB
# kept.  FOLDER appears when it is complete, and cannot be moved.
set -eu
root=$(cd "$(dirname "$0")/../.." && pwd)
. "$root/tools/packages.sh"

[ $# -eq 2 ] || die "usage: tests/torch/fetch_python.sh VERSION FOLDER"
version=$1
case $2 in # programs name it
/*) folder=$2 ;;
*) folder=$PWD/$2 ;;
esac
for tool in apt-get dpkg-deb patchelf; do
  command -v "$tool" >/dev/null || die "there is no $tool"
done
mirror=$(debian_mirror)
[ -n "$mirror" ] || die "apt knows no mirror of Debian"

mkdir -p "$(dirname "$folder")"
work=$(mktemp -d "$folder.XXXXXX")
trap 'rm -rf "$work"' EXIT
trap 'exit 1' HUP INT TERM

# An apt that knows unstable alone, and a system on which nothing is installed.
mkdir -p "$work/lists/partial" "$work/archives/partial" "$work/root"
: >"$work/status"
printf 'deb [signed-by=%s] %s unstable main\n' /usr/share/keyrings/debian-archive-keyring.gpg "$mirror" >"$work/sources"
cat >"$work/apt.conf" <<EOF
Dir::Etc::SourceList "$work/sources";
Dir::Etc::SourceParts "/dev/null";
Dir::Etc::Preferences "/dev/null";
Dir::Etc::PreferencesParts "/dev/null";
Dir::State "$work";
Dir::State::Lists "$work/lists";
Dir::State::Status "$work/status";
Dir::Cache "$work";
Acquire::Languages "none";
Acquire::Retries "2";
APT::Sandbox::User "";
APT::Update::Error-Mode "any";
Debug::NoLocking "true";
EOF
export APT_CONFIG="$work/apt.conf"
apt-get -qq update
apt-get -qq -y --no-install-recommends --download-only install "python$version-minimal" "libpython$version-stdlib"
for package in "$work"/archives/*.deb; do
  dpkg-deb -x "$package" "$work/root"
done

# DT_RPATH, which holds for the libraries of libraries and of a preload as well; DT_RUNPATH does not.
python=$work/root/usr/bin/python$version
libraries=$(dirname "$(ls "$work"/root/usr/lib/*/libc.so.6)")
patchelf --set-interpreter "$folder/usr$(patchelf --print-interpreter "$python")" --force-rpath \
  --set-rpath "$folder${libraries#"$work/root"}" "$python"
rm -rf "$folder"
mv "$work/root" "$folder"
