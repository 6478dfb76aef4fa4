"""opgap: where does the time of a training run go?

``python -m opgap record -- python train.py``, then ``python -m opgap report``.
"""

import os

_FOLDER = os.path.dirname(os.path.abspath(__file__))
#: The program.
PROGRAM = os.path.join(_FOLDER, "bin", "opgap")
#: The tracer, for LD_PRELOAD.
TRACER = os.path.join(_FOLDER, "lib", "libopgap.so")
