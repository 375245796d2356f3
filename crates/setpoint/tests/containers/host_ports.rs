//! Ports of the node that are forwarded to containers.

use std::io::{Read, Write};
use std::net::TcpStream;

use crate::pod;
use crate::rig::{Rig, isolated};

/// The response of a port of the node; empty if there is none.
fn response(address: &str) -> String {
    let mut text = String::new();
    if let Ok(mut stream) = TcpStream::connect(address) {
        stream.write_all(b"GET / HTTP/1.0\r\n\r\n").ok();
        stream.read_to_string(&mut text).ok();
    }
    text
}

#[test]
fn a_port_of_the_node_reaches_a_container() {
    isolated(
        "host_ports::a_port_of_the_node_reaches_a_container",
        |rig: &mut Rig| {
            let script = "echo hello > /tmp/index.html; exec httpd -f -p 8080 -h /tmp";
            let ports = "ports: [{ containerPort: 8080, hostPort: 18080 }]";
            rig.apply(&pod("web", script, ports, ""));
            rig.run("wait pod/web --for=condition=Ready --timeout=60s");
            rig.wait_until("a response of the container", || {
                response("192.0.2.1:18080").contains("hello")
            });
        },
    );
}
