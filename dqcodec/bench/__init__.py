"""`dqcodec bench`: sizes, speeds and memory of dqcodec and other lossless codecs, each result checked by decoding it.

    images.py    paths -> images; the reference decoder
    codecs.py    what a codec under test is; ours.py and peers.py are the codecs
    measure.py   one codec on one image -> a Row
    worker.py    a process for each codec
    report.py    Rows -> totals and JSON; table.py and figure.py show them
"""
