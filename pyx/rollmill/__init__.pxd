# Names the package for Cython: `cimport rollmill._x` and the modules' own full names need it.
