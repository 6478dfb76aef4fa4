# Each bad value is named, with what is allowed; the program is never started.
try()
{
  opgap record "$@" -- echo must not run
  echo $?
}
try --hooks io,foo
try --hooks ''
try --hooks io,,net
try --alloc evnts
try --min-alloc 1T
try --min-copy -1
try --min-copy 99999999999999999999
try --min-alloc 17179869185G
try --stacks all
try --schedule wait=1
try --schedule active=0
try --schedule active=2,active=3
try --schedule active
try --schedule steps=3
try --delay 1.
try --delay 1s
try --duration 1e3
try --children none,all
try --buffer 4K
try --buffer 17G
try --log verbose
try --off yes
try --off
