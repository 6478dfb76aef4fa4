opgap recrod
opgap frobnicate
