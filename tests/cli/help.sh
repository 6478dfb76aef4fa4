opgap --help | head -n 4
opgap help record | head -n 1
opgap --version
