//! [`KmsService`]: the calls to a plugin. They block: a value is opened by a thread that cannot wait otherwise, and only
//! a new key makes a call necessary.

use std::fmt::Debug;
use std::path::PathBuf;
use std::sync::mpsc::{RecvTimeoutError, SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::Duration;

use prost::Message;
use tokio::sync::mpsc;

use setpoint_grpc::{Channel, Endpoint};

use super::messages::{
    DecryptRequest, DecryptResponse, EncryptRequest, EncryptResponse, StatusRequest, StatusResponse,
};

/// The calls to a plugin.
pub(crate) trait KmsService: Debug + Send + Sync {
    fn status(&self) -> Result<StatusResponse, String>;

    fn encrypt(&self, plaintext: &[u8]) -> Result<EncryptResponse, String>;

    fn decrypt(&self, request: DecryptRequest) -> Result<Vec<u8>, String>;
}

/// Calls that wait for the plugin. More are rejected.
const QUEUED_CALLS: usize = 64;

/// A plugin at a unix socket. One thread has the connection and makes the calls, one after the other.
#[derive(Debug)]
pub(crate) struct KmsPlugin {
    /// Taken when it is dropped, which ends the thread.
    calls: Option<mpsc::Sender<Call>>,
    timeout: Duration,
    thread: Option<JoinHandle<()>>,
}

/// A call and where its response goes.
#[derive(Debug)]
enum Call {
    Status(Reply<StatusResponse>),
    Encrypt(EncryptRequest, Reply<EncryptResponse>),
    Decrypt(DecryptRequest, Reply<DecryptResponse>),
}

type Reply<T> = SyncSender<Result<T, String>>;

impl KmsPlugin {
    pub(crate) fn new(socket: PathBuf, timeout: Duration) -> Result<Self, String> {
        let (calls, receiver) = mpsc::channel(QUEUED_CALLS);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|error| error.to_string())?;
        let run = move || runtime.block_on(make_calls(socket, timeout, receiver));
        let thread = std::thread::Builder::new().name("kms".to_owned()).spawn(run);
        Ok(Self {
            calls: Some(calls),
            timeout,
            thread: Some(thread.map_err(|error| error.to_string())?),
        })
    }

    /// Sends a call and blocks until its response.
    fn call<T>(&self, call: impl FnOnce(Reply<T>) -> Call) -> Result<T, String> {
        let (reply, response) = sync_channel(1);
        let calls = self.calls.as_ref().ok_or("the plugin is closed")?;
        calls
            .try_send(call(reply))
            .map_err(|_| "too many calls wait for the plugin")?;
        // A call before this one may have to time out first.
        match response.recv_timeout(2 * self.timeout) {
            Ok(response) => response,
            Err(RecvTimeoutError::Timeout) => Err("context deadline exceeded".to_owned()),
            Err(RecvTimeoutError::Disconnected) => Err("the plugin is closed".to_owned()),
        }
    }
}

impl KmsService for KmsPlugin {
    fn status(&self) -> Result<StatusResponse, String> {
        self.call(Call::Status)
    }

    fn encrypt(&self, plaintext: &[u8]) -> Result<EncryptResponse, String> {
        let request = EncryptRequest {
            plaintext: plaintext.to_vec(),
            uid: uuid::Uuid::new_v4().to_string(),
        };
        self.call(|reply| Call::Encrypt(request, reply))
    }

    fn decrypt(&self, request: DecryptRequest) -> Result<Vec<u8>, String> {
        let response = self.call(|reply| Call::Decrypt(request, reply))?;
        Ok(response.plaintext)
    }
}

impl Drop for KmsPlugin {
    fn drop(&mut self) {
        self.calls.take();
        if let Some(thread) = self.thread.take() {
            thread.join().ok();
        }
    }
}

/// Makes the calls until the last sender is dropped.
async fn make_calls(socket: PathBuf, timeout: Duration, mut calls: mpsc::Receiver<Call>) {
    let channel = Channel::new(Endpoint::Unix(socket));
    // A reply whose receiver is gone has timed out there.
    while let Some(call) = calls.recv().await {
        match call {
            Call::Status(reply) => {
                let response = unary(&channel, "Status", &StatusRequest {}, timeout).await;
                reply.try_send(response).ok();
            }
            Call::Encrypt(request, reply) => {
                let response = unary(&channel, "Encrypt", &request, timeout).await;
                reply.try_send(response).ok();
            }
            Call::Decrypt(request, reply) => {
                let response = unary(&channel, "Decrypt", &request, timeout).await;
                reply.try_send(response).ok();
            }
        }
    }
}

async fn unary<Q: Message, A: Message + Default>(
    channel: &Channel,
    method: &str,
    request: &Q,
    timeout: Duration,
) -> Result<A, String> {
    let method = format!("v2.KeyManagementService/{method}");
    let response = channel.unary(&method, request, timeout, Vec::new()).await;
    response.map_err(|status| status.text())
}
