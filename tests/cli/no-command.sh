opgap
