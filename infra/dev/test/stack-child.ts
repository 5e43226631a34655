// `npm run dev` as a test can run it: the same module, in a folder of the test's choice.

import "../src/main.ts";
