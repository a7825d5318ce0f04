import type { Locator, Page } from "@playwright/test";

/** A file as a file chooser takes it. */
export interface TestFile {
  name: string;
  mimeType: string;
  buffer: Buffer;
}

interface Drawing {
  type?: string;
  transparent?: boolean;
  noise?: boolean; // which compresses badly
}

/** Has the browser draw a picture: a disc before a gradient. */
export async function draw(
  page: Page, width: number, height: number, { type = "image/jpeg", transparent, noise }: Drawing = {},
): Promise<TestFile> {
  const url = await page.evaluate(
    ({ width, height, type, transparent, noise }) => {
      const canvas = Object.assign(document.createElement("canvas"), { width, height });
      const context = canvas.getContext("2d");
      if (!context) throw new Error("no context");
      const gradient = context.createLinearGradient(0, 0, width, height);
      gradient.addColorStop(0, "#f3c98b");
      gradient.addColorStop(1, "#3b5b7a");
      context.fillStyle = gradient;
      if (!transparent) context.fillRect(0, 0, width, height);
      context.fillStyle = "#a03a1c";
      context.arc(width * 0.7, height / 2, Math.min(width, height) / 4, 0, 7);
      context.fill();
      if (noise) {
        const image = context.getImageData(0, 0, width, height);
        for (let i = 0; i < image.data.length; i++) if (i % 4 < 3) image.data[i] = Math.random() * 256;
        context.putImageData(image, 0, 0);
      }
      return canvas.toDataURL(type, 0.9);
    },
    { width, height, type, transparent, noise },
  );
  const buffer = Buffer.from(url.slice(url.indexOf(",") + 1), "base64");
  return { name: `disc.${type.slice("image/".length)}`, mimeType: type, buffer };
}

/** Adds the EXIF metadata of a phone to a JPEG: an orientation of 90 degrees, and a comment with the location. */
export function asByPhone(file: TestFile): TestFile {
  const tiff = Buffer.from("4d4d002a00000008000101120003000000010006000000000000", "hex"); // orientation 6
  const exif = Buffer.concat([Buffer.from("Exif\0\0"), tiff, Buffer.from("GPS 51.997,-0.741")]);
  const marker = Buffer.from([0xff, 0xe1, (exif.length + 2) >> 8, (exif.length + 2) & 255]);
  const { buffer } = file;
  return { ...file, buffer: Buffer.concat([buffer.subarray(0, 2), marker, exif, buffer.subarray(2)]) };
}

/** Drops or pastes a file. */
export const give = (target: Locator, event: "drop" | "paste", { name, mimeType, buffer }: TestFile) =>
  target.evaluate(
    (element, { event, name, mimeType, base64 }) => {
      const data = new DataTransfer();
      const bytes = Uint8Array.from(atob(base64), (char) => char.charCodeAt(0));
      data.items.add(new File([bytes], name, { type: mimeType }));
      const options = { bubbles: true, cancelable: true };
      element.dispatchEvent(
        event === "drop"
          ? new DragEvent("drop", { ...options, dataTransfer: data })
          : new ClipboardEvent("paste", { ...options, clipboardData: data }),
      );
    },
    { event, name, mimeType, base64: buffer.toString("base64") },
  );

/** Chooses files by a button. */
export async function choose(page: Page, button: Locator, files: TestFile[]) {
  const chooser = page.waitForEvent("filechooser");
  await button.click();
  await (await chooser).setFiles(files);
}

/** Returns the width of a picture in pixels, after its orientation in EXIF is applied. */
export const decodedWidth = (page: Page, picture: Buffer) =>
  page.evaluate(async (base64) => {
    const blob = new Blob([Uint8Array.from(atob(base64), (char) => char.charCodeAt(0))]);
    return (await createImageBitmap(blob)).width;
  }, picture.toString("base64"));

/** Returns the intrinsic width of an image, in pixels. */
export const widthOf = (image: Locator) => image.evaluate((image: HTMLImageElement) => image.naturalWidth);
