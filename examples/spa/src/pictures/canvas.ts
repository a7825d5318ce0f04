import { PictureError } from "../network/errors";

/** The content types that the gateway takes. */
export const types = ["image/jpeg", "image/png", "image/webp", "image/gif", "image/avif"];

const maxBytes = 10_000_000; // the gateway's limit
const widest = 2000; // pixels
const heaviest = 1_000_000; // bytes
const avatar = 256; // pixels
const quality = 0.85;

/**
 * Readies a picture for a page. Photos that are wide, have many bytes, or say where they were taken, are drawn again:
 * smaller, upright, and without such data. What moves stays as it is.
 */
export async function fitted(file: File): Promise<Blob> {
  check(file);
  if (!/jpeg|png|webp/.test(file.type) || (await has(file.slice(0, 1000), /ANIM|acTL/))) return light(file);
  const picture = await decode(file);
  const large = picture.width > widest || file.size > heaviest;
  if (!large && !(await has(file, /Exif|EXIF|eXIf|adobe/))) return file;
  const width = Math.min(picture.width, widest);
  const height = Math.max(1, Math.round((picture.height * width) / picture.width));
  return light(await redrawn(picture, [0, 0, picture.width, picture.height], width, height));
}

/** The center of a picture, as an avatar. */
export async function square(file: File): Promise<Blob> {
  check(file);
  const picture = await decode(file);
  const side = Math.min(picture.width, picture.height);
  return redrawn(picture, [(picture.width - side) / 2, (picture.height - side) / 2, side, side], avatar, avatar);
}

function check({ type }: File) {
  if (!types.includes(type)) throw new PictureError("Choose a picture: JPEG, PNG, WebP, GIF or AVIF.");
}

function light(picture: Blob) {
  if (picture.size <= maxBytes) return picture;
  const megabytes = (picture.size / 1e6).toFixed(1);
  throw new PictureError(`This picture has ${megabytes} MB; at most ${maxBytes / 1e6} MB are possible.`);
}

/** Whether a file names a part of it, such as one with the place where a photo was taken. */
const has = async (file: Blob, part: RegExp) => part.test(new TextDecoder("latin1").decode(await file.arrayBuffer()));

async function decode(file: File) {
  try {
    return await createImageBitmap(file, { imageOrientation: "from-image" });
  } catch (error) {
    throw new PictureError("This file is damaged, or no picture of the type that its name says.", { cause: error });
  }
}

/** Draws a part of a picture, and frees it. The result is a JPEG; with transparency a WebP, or a PNG in Safari. */
async function redrawn(
  picture: ImageBitmap, part: readonly [number, number, number, number], width: number, height: number,
): Promise<Blob> {
  const canvas = document.createElement("canvas");
  canvas.width = width;
  canvas.height = height;
  const context = canvas.getContext("2d");
  if (!context) throw new PictureError("Your browser cannot make this picture smaller.");
  context.imageSmoothingQuality = "high";
  context.drawImage(picture, ...part, 0, 0, width, height);
  picture.close();
  const { data } = context.getImageData(0, 0, width, height);
  let opaque = true;
  for (let i = 3; opaque && i < data.length; i += 4) opaque = data[i] === 255;
  const type = opaque ? "image/jpeg" : "image/webp";
  const encoded = await new Promise<Blob | null>((resolve) => { canvas.toBlob(resolve, type, quality); });
  if (!encoded) throw new PictureError("Your browser cannot make this picture smaller.");
  return encoded;
}
