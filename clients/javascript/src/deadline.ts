/** The time that a call has, over all its attempts and the pauses between them. Close it when the call is over. */
export class Deadline {
  readonly #controller = new AbortController();
  readonly #timer: ReturnType<typeof setTimeout>;
  readonly #end: number;
  readonly #caller: AbortSignal | undefined;
  readonly #abort = (): void => this.#controller.abort(this.#caller?.reason);

  /** caller: a signal by which the call can be given up earlier. */
  constructor(
    readonly milliseconds: number,
    caller?: AbortSignal,
  ) {
    this.#end = performance.now() + milliseconds;
    this.#timer = setTimeout(() => this.#controller.abort(), milliseconds);
    this.#caller = caller;
    if (caller?.aborted) this.#abort();
    caller?.addEventListener("abort", this.#abort);
  }

  /** Aborted at the deadline, or by the caller. */
  get signal(): AbortSignal {
    return this.#controller.signal;
  }

  /** Whether the time is over. */
  get isOver(): boolean {
    return this.leftMs <= 0;
  }

  /** How much time is left. */
  get leftMs(): number {
    return this.signal.aborted ? 0 : this.#end - performance.now();
  }

  /** Throw the caller's reason if it was the caller who gave up. */
  throwIfGivenUp(): void {
    this.#caller?.throwIfAborted();
  }

  /** Wait, at most until the deadline. */
  pause(milliseconds: number): Promise<void> {
    return new Promise((resolve) => {
      const done = (): void => {
        clearTimeout(timer);
        this.signal.removeEventListener("abort", done);
        resolve();
      };
      const timer = setTimeout(done, milliseconds);
      this.signal.addEventListener("abort", done);
      if (this.signal.aborted) done();
    });
  }

  close(): void {
    clearTimeout(this.#timer);
    this.#caller?.removeEventListener("abort", this.#abort);
  }
}
