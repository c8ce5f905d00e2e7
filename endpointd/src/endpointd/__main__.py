"""``python -m endpointd`` and the ``endpointd`` script."""


def main() -> None:
    """Run the command line."""
    from endpointd.cli.main import cli

    cli(prog_name="endpointd")


if __name__ == "__main__":
    main()
