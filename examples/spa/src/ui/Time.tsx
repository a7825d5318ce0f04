const absolute = new Intl.DateTimeFormat("en", { dateStyle: "long", timeStyle: "short" });
const day = new Intl.DateTimeFormat("en", { day: "numeric", month: "short", year: "numeric" });
const relative = new Intl.RelativeTimeFormat("en", { numeric: "auto" });

interface Props {
  value: string;
  phrase?: (date: Date, now: Date) => string;
}

/** A moment, by default as how long ago it was. */
export function Time({ value, phrase = ago }: Props) {
  const date = new Date(value);
  return (
    <time dateTime={value} title={absolute.format(date)}>
      {phrase(date, new Date())}
    </time>
  );
}

/** How long ago a moment of the last week was, else its date. */
export function ago(date: Date, now: Date) {
  const minutes = Math.round((date.getTime() - now.getTime()) / 60_000);
  if (minutes > -1) return "just now";
  if (minutes > -60) return relative.format(minutes, "minute");
  if (minutes > -24 * 60) return relative.format(Math.round(minutes / 60), "hour");
  if (minutes > -7 * 24 * 60) return relative.format(daysFrom(now, date), "day");
  return day.format(date);
}

/** The day of a moment, as it stands after "since". */
export function onDay(date: Date, now: Date) {
  const days = Math.min(daysFrom(now, date), 0);
  return days < -1 ? day.format(date) : relative.format(days, "day");
}

/** The days from one date of the calendar to another. */
const daysFrom = (start: Date, end: Date) => Math.round((midnight(end) - midnight(start)) / 86_400_000);

const midnight = (date: Date) => new Date(date).setHours(0, 0, 0, 0);
