"""`python -m dqcodec`."""

from dqcodec.command.cli import main

if __name__ == "__main__":
    main(prog_name="dqcodec")
