// A TCP relay in front of PostgreSQL that can go silent: nothing refused, nothing answered, as a cut network does.
import { connect, createServer, type Socket } from "node:net";

export type Relay = {
  readonly port: number;
  /** From now on no byte passes in either direction; connections stay open and new ones are accepted. */
  readonly cut: () => void;
  /** Drops what was open while cut, as a network that comes back finds its connections dead, and relays again. */
  readonly restore: () => void;
  readonly stop: () => Promise<void>;
};

export async function startRelay(target: { readonly host: string; readonly port: number }): Promise<Relay> {
  const sockets = new Set<Socket>();
  let silent = false;
  const track = (socket: Socket): Socket => {
    sockets.add(socket);
    socket.once("close", () => sockets.delete(socket));
    // A reset is what a drill is for; whoever is on the other end sees the close.
    socket.on("error", () => socket.destroy());
    return socket;
  };
  const server = createServer((downstream) => {
    track(downstream);
    if (silent) {
      downstream.pause();
      return;
    }
    const upstream = track(connect(target.port, target.host));
    downstream.pipe(upstream);
    upstream.pipe(downstream);
    downstream.once("close", () => upstream.destroy());
    upstream.once("close", () => downstream.destroy());
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const address = server.address();
  if (address === null || typeof address === "string") throw new TypeError("a TCP server has a port");
  return {
    port: address.port,
    cut: () => {
      silent = true;
      for (const socket of sockets) socket.unpipe().pause();
    },
    restore: () => {
      silent = false;
      for (const socket of sockets) socket.destroy();
    },
    stop: () => {
      for (const socket of sockets) socket.destroy();
      return new Promise((resolve) => server.close(() => resolve()));
    },
  };
}
