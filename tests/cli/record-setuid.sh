if [ "$(id -u)" -ne 0 ]; then
  echo 'skipped: only root can give a file away'
  exit 77
fi
cp /bin/true other
chown nobody other
chmod 4755 other
opgap record -- ./other
echo $?
printf '#!./other\n' >script
chmod +x script
opgap record -- ./script
