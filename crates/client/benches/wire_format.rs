//! The cost of one listed and one watched pod for a client, in JSON and in protobuf: from response bytes to a stored object.
//!
//! `cargo bench -p setpoint-client` prints nanoseconds for each pod: the best of several rounds, as others share the
//! machine.
#![allow(
    clippy::print_stdout,
    clippy::disallowed_methods,
    reason = "a bench measures time and prints it"
)]

use std::hint::black_box;
use std::time::Instant;

use bytes::Bytes;
use setpoint_client::decode;
use setpoint_codec::protobuf::builtin::{self, BuiltinObject};
use setpoint_codec::protobuf::{TypeMeta, envelope, list};

const ROUNDS: u32 = 20;
const TIMES: u32 = 20;
const PODS: usize = 500;

fn main() {
    let pod = include_str!("pod.json").trim_end();
    let sealed = builtin::seal_json(pod.as_bytes()).expect("pods have a protobuf form");
    let message = envelope::open(&sealed)
        .expect("it was just sealed")
        .message
        .to_vec();
    let item = pod.replacen(r#""kind":"Pod","apiVersion":"v1","#, "", 1);
    let items = vec![item.as_str(); PODS].join(",");
    let json = format!(
        r#"{{"kind":"PodList","apiVersion":"v1","metadata":{{"resourceVersion":"9"}},"items":[{items}]}}"#
    );
    let messages = vec![message.as_slice(); PODS];
    let protobuf = list::write(&TypeMeta::new("v1", "PodList"), b"", &messages);
    println!(
        "a list of {PODS}: {} bytes of JSON, {} of protobuf",
        json.len(),
        protobuf.len()
    );
    measure("a listed pod in JSON", || {
        black_box(decode::list(json.as_bytes())).expect("it is a list");
    });
    measure("a listed pod in protobuf", || {
        black_box(decode::protobuf_list(&protobuf)).expect("it is a list");
    });
    measure("a watched pod in JSON", || {
        for _ in 0..PODS {
            let json = Bytes::copy_from_slice(pod.as_bytes());
            black_box(decode::object(json)).expect("it is a pod");
        }
    });
    measure("a watched pod in protobuf", || {
        for _ in 0..PODS {
            let document = BuiltinObject::open(&sealed).expect("it was just sealed");
            black_box(decode::protobuf_object(&document)).expect("it is a pod");
        }
    });
    measure("a pod written in protobuf", || {
        for _ in 0..PODS {
            black_box(builtin::seal_json(pod.as_bytes()));
        }
    });
}

/// Prints the time for each pod of `work`, which handles one list of pods.
fn measure(what: &str, mut work: impl FnMut()) {
    let mut round = || {
        let start = Instant::now();
        (0..TIMES).for_each(|_| work());
        start.elapsed().as_nanos() / u128::from(TIMES) / PODS as u128
    };
    let best = (0..ROUNDS).map(|_| round()).min().expect("there are rounds");
    println!("{best:>10} ns  {what}");
}
