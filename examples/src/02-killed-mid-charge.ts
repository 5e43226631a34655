// Example 2 - killed mid charge: the demo's story, checked line by line, with the derived key and with one made at call time.
import { collect, verdictOf } from "./demo/evidence.ts";
import { playStory } from "./demo/story.ts";
import { check } from "./support/scene.ts";

const say = (text: string): void => void process.stdout.write(`${text}\n`);

const verdict = verdictOf(await playStory({ naive: false, say }, collect));
check(verdict.deliveries === 2, "SQS delivered the message twice");
check(verdict.provider_requests >= 2, "the provider was asked at least twice");
check(verdict.key_reused, "both requests carried the same key");
check(verdict.charges === 1, "the customer was charged once");
check(verdict.first_delivery.obituary, "the killed delivery left an obituary");
check(verdict.filter_receive_count_gt_1 === 1, "receive_count>1 finds the second delivery, and it alone");

const naive = verdictOf(await playStory({ naive: true, say }, collect));
check(naive.charges === 2, "with a key made at the moment of the request the same story charges twice");
