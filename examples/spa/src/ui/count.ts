const format = new Intl.NumberFormat("en");

/** A number of things, such as "1 like" and "2,000 likes". */
export const count = (n: number, noun: string) => `${digits(n)} ${noun}${n === 1 ? "" : "s"}`;

/** A number, such as "2,000". */
export const digits = (n: number) => format.format(n);
