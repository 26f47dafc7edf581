"""Training, evaluation and release of models. It needs torch (pip install 'dqcodec[train]')."""
