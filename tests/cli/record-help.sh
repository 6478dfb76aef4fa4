opgap record --help
