"""GET /: the playground, a page for trying the models in a browser."""

from starlette.responses import HTMLResponse
from starlette.types import ASGIApp

from elmo.serve.api_call import ApiCall
from elmo.serve.endpoint import Endpoint
from elmo.serve.playground.playground_page import playground_page

# What the policy inside of the page cannot say: it is not shown in frames of other pages, whose
# visitors could be led to click on it.
HEADERS = {
    "Content-Security-Policy": "frame-ancestors 'none'",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "Cache-Control": "no-cache",
}


async def playground(call: ApiCall) -> ASGIApp:
    """Return the page."""
    return HTMLResponse(playground_page(), headers=HEADERS)


PLAYGROUND = Endpoint(
    "/", playground, "Page for trying the models", answer="text/html", is_limited=False
)
