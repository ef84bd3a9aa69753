// Requests to the server that the page comes from. Its errors have messages for people.

class ServerError extends Error {
  constructor(message, status) {
    super(message);
    this.status = status;
  }
}

class Server {
  /** The token is only kept in memory, and is sent with each request if there is one. */
  token = "";

  /** Return the address of a path, also if the page is behind a proxy that adds a prefix. */
  address(path) {
    return new URL(path, location.origin + location.pathname).href;
  }

  /** Return the JSON answer to a GET request or, with fields, a POST request. */
  async call(path, fields, signal) {
    const headers = {};
    if (this.token) headers.Authorization = `Bearer ${this.token}`;
    if (fields) headers["Content-Type"] = "application/json";
    const method = fields ? "POST" : "GET";
    const body = fields && JSON.stringify(fields);
    try {
      const answer = await fetch(this.address(path),
        { method, headers, body, signal, cache: "no-store" });
      if (answer.ok) return await answer.json();
      throw new ServerError(await errorMessage(answer), answer.status);
    } catch (error) {
      if (error instanceof TypeError) throw new ServerError("The server cannot be reached.", 0);
      if (error instanceof SyntaxError) throw new ServerError("The answer is not JSON.", 0);
      throw error;
    }
  }
}

/** Return the message of an answer that is an error. */
async function errorMessage(answer) {
  let message = `The server answered with status ${answer.status}.`;
  try {
    message = (await answer.json()).error.message;
  } catch {
    // A proxy answered, or the connection was lost.
  }
  const seconds = Number(answer.headers.get("Retry-After"));
  return seconds ? `${message} Try again in ${seconds} s.` : message;
}
