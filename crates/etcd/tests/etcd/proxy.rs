//! A proxy in front of etcd that cuts connections.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex};

/// A port of the loopback address whose connections go to another one.
pub(crate) struct Proxy {
    pub(crate) port: u16,
    state: Arc<State>,
}

struct State {
    upstream: u16,
    /// Connections are closed as soon as they are accepted.
    stopped: AtomicBool,
    /// Bytes from the server until all connections are cut; negative for never.
    budget: AtomicI64,
    open: Mutex<Vec<TcpStream>>,
    cuts: AtomicU64,
}

impl Proxy {
    pub(crate) fn start(upstream: u16) -> Proxy {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        let state = Arc::new(State {
            upstream,
            stopped: AtomicBool::new(false),
            budget: AtomicI64::new(-1),
            open: Mutex::default(),
            cuts: AtomicU64::new(0),
        });
        let accepting = state.clone();
        std::thread::spawn(move || {
            for client in listener.incoming().flatten() {
                accepting.connect(client);
            }
        });
        Proxy { port, state }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// Cuts all connections and closes further ones.
    pub(crate) fn stop(&self) {
        self.state.stopped.store(true, SeqCst);
        self.state.cut();
    }

    /// How often connections were cut.
    pub(crate) fn cuts(&self) -> u64 {
        self.state.cuts.load(SeqCst)
    }

    pub(crate) fn resume(&self) {
        self.state.stopped.store(false, SeqCst);
    }

    /// Cuts all connections after the server has sent this many bytes more, which are lost.
    pub(crate) fn cut_after(&self, bytes: i64) {
        self.state.budget.store(bytes, SeqCst);
    }
}

impl State {
    fn connect(self: &Arc<Self>, client: TcpStream) {
        if self.stopped.load(SeqCst) {
            return;
        }
        let Ok(server) = TcpStream::connect((Ipv4Addr::LOCALHOST, self.upstream)) else {
            return;
        };
        for stream in [&client, &server] {
            stream.set_nodelay(true).unwrap();
        }
        let streams = [client.try_clone(), server.try_clone()];
        self.open.lock().unwrap().extend(streams.into_iter().flatten());
        let (to_client, from_server) = (client.try_clone().unwrap(), server.try_clone().unwrap());
        let state = self.clone();
        std::thread::spawn(move || copy(client, server, |_| true));
        std::thread::spawn(move || copy(from_server, to_client, |bytes| state.passes(bytes)));
    }

    fn cut(&self) {
        self.cuts.fetch_add(1, SeqCst);
        for stream in self.open.lock().unwrap().drain(..) {
            stream.shutdown(Shutdown::Both).ok();
        }
    }

    /// Whether a message from the server is passed on.
    fn passes(&self, bytes: usize) -> bool {
        let bytes = i64::try_from(bytes).unwrap();
        let before = self.budget.fetch_update(SeqCst, SeqCst, |budget| match budget {
            negative if negative < 0 => None,
            enough if enough >= bytes => Some(enough - bytes),
            _ => Some(-1),
        });
        match before {
            Ok(budget) if budget < bytes => {
                self.cut();
                false
            }
            _ => true,
        }
    }
}

fn copy(mut from: TcpStream, mut to: TcpStream, passes: impl Fn(usize) -> bool) {
    let mut buffer = vec![0; 64 << 10];
    while let Ok(read) = from.read(&mut buffer) {
        if read == 0 || !passes(read) || to.write_all(&buffer[..read]).is_err() {
            break;
        }
    }
    to.shutdown(Shutdown::Both).ok();
    from.shutdown(Shutdown::Both).ok();
}
