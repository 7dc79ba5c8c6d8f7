"""Preview the site with a server that answers Range requests: Chromium cannot seek a video without them.

`python -m docs.serve [--site site] [--port 8000]`
"""

from __future__ import annotations

from pathlib import Path

import click
import uvicorn
from starlette.applications import Starlette
from starlette.routing import Mount
from starlette.staticfiles import StaticFiles


def app(site: Path) -> Starlette:
    """The site in the folder `site`, as an application."""
    return Starlette(routes=[Mount("/", StaticFiles(directory=site, html=True))])


@click.command(help=(__doc__ or "").splitlines()[0])
@click.option("--site", type=click.Path(path_type=Path), default=Path("site"), show_default=True)
@click.option("--port", type=click.IntRange(1, 65535), default=8000, show_default=True)
def main(site: Path, port: int) -> None:
    """Serve until interrupted."""
    if not (site / "index.html").is_file():
        raise click.ClickException(f"{site}/index.html is not there: build the site with `make site`")
    click.echo(f"http://127.0.0.1:{port}/  (Ctrl-C ends)")
    uvicorn.run(app(site), host="127.0.0.1", port=port, log_level="warning")


if __name__ == "__main__":
    main()
