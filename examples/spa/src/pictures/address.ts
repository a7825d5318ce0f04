// Object URLs are for the life of the page.
const local = new Map<string, string>(); // by path
const addresses = new WeakMap<Blob, string>();

/** An address of a file in this page. */
export function addressOf(file: Blob) {
  const address = addresses.get(file) ?? URL.createObjectURL(file);
  addresses.set(file, address);
  return address;
}

/** Has this page show a file at a path. */
export const showAt = (path: string, file: Blob) => local.set(path, addressOf(file));

/** Where a picture is, given its path: in this page, if it was uploaded from there. Readers may not see it yet. */
export const shownAt = (path: string) => local.get(path) ?? path;

const prefix = "/files/";

/** The id of an upload, given its path; undefined for other addresses. */
export const uploadOf = (url: string) => (url.startsWith(prefix) ? url.slice(prefix.length) : undefined);
