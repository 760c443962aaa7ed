// The names of sessions on the page: an id, with its namespace before it where that is not the default one. An id may have a slash, too.

export const named = (namespace, id) => (!id ? "" : (namespace || "default") === "default" && !id.includes("/") ? id : `${namespace || "default"}/${id}`);

// parts are a name's namespace, "" where it names none and the viewer's own is meant, and its id.
export function parts(name) {
  const at = name.indexOf("/");
  return at < 0 ? ["", name] : [name.slice(0, at), name.slice(at + 1)];
}
