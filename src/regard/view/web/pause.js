// Long work in short pieces, so that the page answers while it is being done.

/** How long one piece may take, in milliseconds: half of a frame. */
const PIECE = 8;

/** Let the page do what waits. @returns {Promise<void>} */
export function pause() {
  return new Promise((done) => {
    const { port1, port2 } = new MessageChannel();
    port1.onmessage = () => {
      port1.close();
      done();
    };
    port2.postMessage(null);
  });
}

/**
 * Do `work(n)` for every n below `count`, in pieces, while it is still wanted.
 * @param {number} count
 * @param {(n: number) => void} work
 * @param {() => boolean} wanted
 * @returns {Promise<boolean>} whether all was done
 */
export async function inPieces(count, work, wanted) {
  let began = performance.now();
  for (let n = 0; n < count; n++) {
    if (performance.now() - began > PIECE) {
      await pause();
      if (!wanted()) return false;
      began = performance.now();
    }
    work(n);
  }
  return true;
}
