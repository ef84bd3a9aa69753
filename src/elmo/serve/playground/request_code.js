// The request of the page as a shell command and as a Python program, both of which run as shown.

// Most systems limit an argument of a command to 128 KiB.
const MAX_ARGUMENT_BYTES = 100000;
const TOKEN_VARIABLE = "ELMO_SERVE_TOKEN";

/** Return a value as JSON that is also a Python literal, with escapes for invisible characters. */
function literal(value) {
  if (Array.isArray(value)) return `[${value.map(literal).join(", ")}]`;
  return JSON.stringify(value).replace(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu, (character) => (
    character.length > 1 ? character
      : `\\u${character.charCodeAt(0).toString(16).padStart(4, "0")}`));
}

/** Return the fields of a request, one per line, and sentences also one per line. */
function fieldLines(fields) {
  const lines = Object.entries(fields).map(([name, value]) => {
    const shown = name === "sentences"
      ? `[\n${value.map((each) => `        ${literal(each)}`).join(",\n")}\n    ]` : literal(value);
    return `    ${literal(name)}: ${shown}`;
  });
  return `{\n${lines.join(",\n")}\n}`;
}

/** Return a text as one word of a shell command. */
function shellQuoted(text) {
  return `'${text.replaceAll("'", "'\\''")}'`;
}

/** Return the command for curl. */
function curlCommand(address, fields, hasToken) {
  const body = shellQuoted(fieldLines(fields));
  if (new TextEncoder().encode(body).length > MAX_ARGUMENT_BYTES) {
    return "# This request is too long for a command line. Use Python.";
  }
  const token = hasToken ? `  -H "Authorization: Bearer $${TOKEN_VARIABLE}" \\\n` : "";
  return `curl ${shellQuoted(address)} \\\n${token}`
    + `  -H 'Content-Type: application/json' \\\n  -d ${body}`;
}

/** Return the Python program, which needs no package. */
function pythonProgram(address, fields, hasToken, printing) {
  const lines = ["import json"];
  if (hasToken) lines.push("import os");
  lines.push("from urllib.request import Request, urlopen", "", `fields = ${fieldLines(fields)}`,
    'headers = {"Content-Type": "application/json"}');
  if (hasToken) lines.push(`headers["Authorization"] = "Bearer " + os.environ["${TOKEN_VARIABLE}"]`);
  return [...lines, `request = Request(${literal(address)}, json.dumps(fields).encode(), headers)`,
    "with urlopen(request) as answer:", "    data = json.load(answer)", ...printing, ""].join("\n");
}

/** Copy a text to the clipboard; pages that are neither local nor HTTPS only have the old way. */
async function copyText(text) {
  if (navigator.clipboard) return navigator.clipboard.writeText(text);
  const area = make("textarea", { "aria-hidden": "true" });
  area.value = text;
  document.body.append(area);
  area.select();
  const isCopied = document.execCommand("copy");
  area.remove();
  if (!isCopied) throw new Error("The browser does not allow copying.");
}
