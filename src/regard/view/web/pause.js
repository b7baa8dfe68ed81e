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

/** Lets the page do what waits, when a piece has taken long enough; null: it has not.
 * @returns {() => Promise<void> | null} */
export function pacer() {
  let began = performance.now();
  return () => {
    if (performance.now() - began <= PIECE) return null;
    return pause().then(() => void (began = performance.now()));
  };
}

/**
 * Do `work(n)` for every n below `count`, in pieces, while it is still wanted.
 * @param {number} count @param {(n: number) => void} work @param {() => boolean} wanted
 * @returns {Promise<boolean>} whether all was done
 */
export async function inPieces(count, work, wanted) {
  const breathe = pacer();
  for (let n = 0; n < count; n++) {
    const due = breathe();
    if (due !== null) {
      await due;
      if (!wanted()) return false;
    }
    work(n);
  }
  return true;
}

/**
 * Work that is done in the next frame, however often it is asked for until then.
 * @param {() => void} work
 * @returns {() => void}
 */
export function onceAFrame(work) {
  let waiting = false;
  return () => {
    if (waiting) return;
    waiting = true;
    requestAnimationFrame(() => {
      waiting = false;
      work();
    });
  };
}
