const absolute = new Intl.DateTimeFormat("en", { dateStyle: "long", timeStyle: "short" });
const day = new Intl.DateTimeFormat("en", { day: "numeric", month: "short", year: "numeric" });
const relative = new Intl.RelativeTimeFormat("en", { numeric: "auto" });

/** A moment: how long ago in the last week, else its date. */
export function Time({ value }: { value: string }) {
  const date = new Date(value);
  return (
    <time dateTime={value} title={absolute.format(date)}>
      {ago(date, new Date())}
    </time>
  );
}

export function ago(date: Date, now: Date) {
  const minutes = Math.round((date.getTime() - now.getTime()) / 60_000);
  if (minutes > -1) return "just now";
  if (minutes > -60) return relative.format(minutes, "minute");
  if (minutes > -24 * 60) return relative.format(Math.round(minutes / 60), "hour");
  if (minutes > -7 * 24 * 60) return relative.format(Math.round(minutes / 60 / 24), "day");
  return day.format(date);
}
