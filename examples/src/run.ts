// `npm run example [number...]`: runs the numbered examples, all of them by default; each checks itself.
import { spawn } from "node:child_process";
import { once } from "node:events";
import { readdirSync } from "node:fs";
import { fileURLToPath } from "node:url";

const folder = fileURLToPath(new URL(".", import.meta.url));
const wanted = process.argv.slice(2);
const examples = readdirSync(folder)
  .filter((file) => /^\d\d-.*\.js$/.test(file))
  .filter((file) => wanted.length === 0 || wanted.some((number) => file.startsWith(number.padStart(2, "0"))))
  .sort();
if (examples.length === 0) {
  process.stderr.write(`no example ${wanted.join(" ")}; the numbers are those of the files in examples/src\n`);
  process.exitCode = 2;
}

for (const file of examples) {
  process.stdout.write(`\n${file.replace(/\.js$/, "")}\n`);
  const child = spawn(process.execPath, [`${folder}${file}`], { stdio: "inherit" });
  const [code]: (number | null)[] = await once(child, "exit");
  if (code !== 0) {
    process.stderr.write(`${file} failed\n`);
    process.exitCode = 1;
  }
}
