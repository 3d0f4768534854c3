import { pack } from '../../protocol/codec.ts';
import { succeed } from '../../protocol/error-record.ts';
import type { Outcome } from '../../protocol/error-record.ts';
import type { HarnessError } from '../../protocol/errors.ts';
import type { ClaimReply, HostServices } from '../../protocol/host-services.ts';
import { StreamId } from '../../protocol/ids.ts';
import type { Port } from '../../protocol/port.ts';
import type { ToMain, WorkerEvent } from '../../protocol/to-main.ts';
import type { ToWorker } from '../../protocol/to-worker.ts';
import { Link } from '../../src/worker-host/link.ts';
import type { MainShare } from '../../src/worker-host/main-share.ts';
import { linkedPorts } from '../support/linked-ports.ts';
import { ManualClock } from '../support/manual-clock.ts';

export const stream = StreamId('m1');
export const stepEnd = (step: number): WorkerEvent => ({
  type: 'step/end',
  data: { turn: 1, step },
});
export const callOf = (name: string, ...values: unknown[]): object => ({
  id: 'c1',
  type: 'APPLY',
  path: [name],
  argumentList: values.map((value) => ({ type: 'RAW', value })),
});
export const claim = callOf('claim', 'turn', false);
export const idle: Outcome<ClaimReply> = succeed({ kind: 'idle' });
export const settled = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

export const counting = (asked: string[]): Pick<HostServices, 'claim'> => ({
  claim(boundary) {
    asked.push(boundary);
    return Promise.resolve(idle);
  },
});

/** Main's end of a port whose other end the test has. */
export function linked(
  options: {
    readonly port?: Port;
    readonly window?: { readonly frames: number; readonly bytes: number };
    readonly services?: Partial<HostServices>;
    readonly event?: (event: WorkerEvent) => void;
    readonly now?: () => number;
    readonly share?: MainShare;
  } = {},
) {
  const ports = linkedPorts('manual');
  const clock = new ManualClock();
  const told: unknown[] = [];
  const violations: HarnessError[] = [];
  const received: ToWorker[] = [];
  const refuse = (): never => {
    throw new Error('Nobody should ask for this.');
  };
  const link = new Link({
    port: options.port ?? ports.main,
    services: {
      claim: refuse,
      callTool: refuse,
      finishTool: refuse,
      openModel: refuse,
      ...options.services,
    },
    ...(options.window === undefined ? {} : { window: options.window }),
    now: options.now ?? (() => clock.now()),
    ...(options.share === undefined ? {} : { share: options.share }),
    durable: () => 42,
    ready: (tools) => told.push(['ready', tools]),
    event: (event) => {
      options.event?.(event);
      told.push(event);
    },
    stopped: () => told.push('stopped'),
    fault: ({ message }) => told.push(['fault', message]),
    violation: (error) => violations.push(error),
  });
  ports.worker.on('message', (frame) => received.push(frame as ToWorker));
  return {
    link,
    ports,
    clock,
    told,
    violations,
    /** What main sent, once all of it has arrived. */
    received(): readonly ToWorker[] {
      ports.flush();
      return received;
    },
    /** Post as the thread does, and let main read it. */
    post(...frames: readonly (ToMain | object)[]): void {
      for (const frame of frames) {
        ports.worker.postMessage(frame instanceof Uint8Array ? frame : pack(frame));
      }
      ports.flush(Number.POSITIVE_INFINITY, 'main');
    },
  };
}
