/**
 * Main's half of the calls: the dispatcher for one agent, in front of which `checkCall` stands.
 * What is exposed has no prototype and nothing but the four services, made for this agent.
 */
import { expose } from 'comlink';
import { frameEndpoint } from '../../protocol/frame-endpoint.ts';
import type { FrameEndpoint } from '../../protocol/frame-endpoint.ts';
import type { HostServices } from '../../protocol/host-services.ts';
import type { RpcCall } from '../../protocol/to-main.ts';
import type { RpcReply } from '../../protocol/to-worker.ts';

/** @param send posts one reply; it must not throw. */
export function serveCalls(
  services: HostServices,
  send: (reply: RpcReply) => void,
): FrameEndpoint<RpcCall> {
  const endpoint = frameEndpoint<RpcCall, RpcReply>(send);
  const exposed = Object.assign(Object.create(null) as HostServices, {
    claim: services.claim.bind(services),
    callTool: services.callTool.bind(services),
    finishTool: services.finishTool.bind(services),
    openModel: services.openModel.bind(services),
  });
  expose(Object.freeze(exposed), endpoint as unknown as Parameters<typeof expose>[1]);
  return endpoint;
}
