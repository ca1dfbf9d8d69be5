// Questions to this server, and streams of events from it.

export class Refused extends Error {}

export function path(...parts) {
  return "/" + parts.map(encodeURIComponent).join("/");
}

export function query(values) {
  const made = new URLSearchParams();
  for (const [name, value] of Object.entries(values)) {
    for (const each of Array.isArray(value) ? value : [value]) {
      if (each !== null && each !== undefined && each !== "") made.append(name, each);
    }
  }
  const text = made.toString();
  return text ? `?${text}` : "";
}

async function asked(address, signal, body) {
  let response;
  const sent = body === undefined ? {} : { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(body) };
  try {
    response = await fetch(address, { signal, credentials: "same-origin", ...sent });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Refused("the server does not answer: is offsetfs web still running?");
  }
  if (response.ok) return response;
  const said = await response.json().catch(() => null);
  throw new Refused(said?.error ?? `the server answers ${response.status}`);
}

// With a body the question is sent by POST.
export async function ask(address, signal, body) {
  return (await asked(address, signal, body)).json();
}

// Calls on[EVENT](DATA) for each event of a stream; returns at its end.
export async function listen(address, on, signal) {
  const reader = (await asked(address, signal)).body.pipeThrough(new TextDecoderStream()).getReader();
  let text = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    const parts = (text + value).split("\n\n");
    text = parts.pop();
    for (const part of parts) {
      const match = /^event: (\w+)\ndata: ([^]*)$/.exec(part);
      if (match) on[match[1]]?.(JSON.parse(match[2]));
    }
  }
}
