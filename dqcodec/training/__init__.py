"""Training, evaluation and release of models; needs torch (pip install 'dqcodec[train]')."""
