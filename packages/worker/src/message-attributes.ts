// Message attributes kept in a row and sent again: whatever we send in a producer's name keeps the producer's trace (Q18).
import { z } from "zod";

const textSchema = z.looseObject({ DataType: z.string(), StringValue: z.string() });
type TextAttributes = Record<string, z.infer<typeof textSchema>>;

/** For a text column. Undefined attributes are none. */
export function storedAttributes(attributes: unknown): string {
  return JSON.stringify(attributes ?? {});
}

/** Those of text, a traceparent among them; bytes do not survive JSON and are left out. Never throws for what `storedAttributes` wrote. */
export function attributesOf(stored: string): TextAttributes {
  const all: unknown = JSON.parse(stored);
  if (typeof all !== "object" || all === null) return {};
  const texts: TextAttributes = {};
  for (const [name, value] of Object.entries(all)) {
    const read = textSchema.safeParse(value);
    if (read.success) texts[name] = read.data;
  }
  return texts;
}
