"""``python -m tinykube`` and the ``tinykube`` script."""


def main() -> None:
    """Run the command line."""
    from tinykube.cli.main import cli

    cli(prog_name="tinykube")


if __name__ == "__main__":
    main()
