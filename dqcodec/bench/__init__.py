"""`dqcodec bench`: sizes, speeds and memory of dqcodec and other lossless codecs. Every result is decoded and compared.

images.py    paths -> images; the reference decoder
codecs.py    the interface of a codec; ours.py and peers.py hold the codecs, catalogue.py their names
measure.py   one codec on one image -> a Row
worker.py    a process for each codec
report.py    Rows -> totals and JSON; table.py and figure.py show them
"""
