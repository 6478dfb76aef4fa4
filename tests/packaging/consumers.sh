# A program with the markers of opgap.h, built with pkg-config and with CMake's find_package against an installation
# that was moved, gives the same exact steps and ranges.
build=$1
. "$(dirname "$0")/common.sh"

cmake --install "$build" --prefix "$PWD/elsewhere" >log || fail "$(cat log)"
mv elsewhere moved

cat >main.c <<'END'
#include <opgap/opgap.h>
int main(void)
{
  for (int i = 0; i < 3; i++) {
    opgap_range_push("work");
    opgap_range_pop();
    opgap_step();
  }
  return 0;
}
END
cat >CMakeLists.txt <<'END'
cmake_minimum_required(VERSION 3.22)
project(consumer C)
find_package(opgap 0.1 REQUIRED)
add_executable(with-cmake main.c)
target_link_libraries(with-cmake PRIVATE opgap::opgap)
file(GENERATE OUTPUT paths CONTENT "${opgap_VERSION} ${opgap_TRACER} ${opgap_PROGRAM}\n")
END

export PKG_CONFIG_PATH="$PWD/moved/share/pkgconfig"
same "version of opgap.pc" "$("$build/opgap" --version)" "opgap $(pkg-config --modversion opgap)"
# shellcheck disable=SC2046 # a list of words
cc -o with-pkg-config main.c $(pkg-config --cflags --libs opgap)
cmake -S . -B . -DCMAKE_PREFIX_PATH="$PWD/moved" >log && cmake --build . >>log || fail "$(cat log)"
version=$(pkg-config --modversion opgap)
same "what find_package tells" "$version $PWD/moved/lib/libopgap.so $PWD/moved/bin/opgap" "$(cat paths)"
same "what pkg-config tells" "$(realpath moved/lib/libopgap.so) $(realpath moved/bin/opgap)" \
  "$(realpath "$(pkg-config --variable=tracer opgap)") $(realpath "$(pkg-config --variable=program opgap)")"

for program in with-pkg-config with-cmake; do
  "./$program" # without the tracer: the markers do nothing
  moved/bin/opgap record --log quiet --out $program.opgap -- "./$program" 2>record.err
  moved/bin/opgap report --format csv --table steps $program.opgap >steps.csv
  same "$program: steps" 4 "$(wc -l <steps.csv)" # with the title
  same "$program: range" "work,range,program,3" \
    "$(moved/bin/opgap report --format csv $program.opgap | cut -d, -f1-4 | grep '^"*work' | tr -d '"')"
done
