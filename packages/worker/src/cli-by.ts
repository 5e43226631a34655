// Who gives an order on the command line, for the rows that remember it.
import { hostname, userInfo } from "node:os";

/** The account and the machine; `--by` says it better where people share accounts. */
export function operatorName(): string {
  return `${accountName()}@${hostname()}`;
}

function accountName(): string {
  try {
    return userInfo().username;
  } catch {
    // A container's uid may have no entry in its passwd file.
    return "unnamed";
  }
}
