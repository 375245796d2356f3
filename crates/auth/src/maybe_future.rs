//! [`MaybeFuture`]: a decision that is made from memory, or else waits for a remote server.

use std::fmt;
use std::future::Future;
use std::pin::Pin;

use tokio::runtime::Handle;
use tokio::task::block_in_place;

/// A decision. Only those of remote servers (webhooks, OpenID providers) are futures: a decision from memory, which is
/// almost every one, allocates nothing.
pub enum MaybeFuture<'a, T> {
    /// Decided from memory.
    Ready(T),
    /// Waits for a remote server.
    Pending(BoxFuture<'a, T>),
}

/// A future that waits for a remote server.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

impl<'a, T> MaybeFuture<'a, T> {
    /// A decision that waits for a remote server.
    pub fn pending(future: impl Future<Output = T> + Send + 'a) -> Self {
        Self::Pending(Box::pin(future))
    }

    /// The decision, waiting for it if necessary.
    pub async fn resolve(self) -> T {
        match self {
            Self::Ready(decision) => decision,
            Self::Pending(future) => future.await,
        }
    }

    /// The decision, for callers that cannot await. If it is pending, the thread blocks, which needs a multi-thread
    /// runtime.
    pub fn wait(self) -> T {
        match self {
            Self::Ready(decision) => decision,
            Self::Pending(future) => {
                let runtime =
                    Handle::try_current().expect("remote servers are called on a thread of the runtime");
                block_in_place(|| runtime.block_on(future))
            }
        }
    }
}

impl<T> From<T> for MaybeFuture<'_, T> {
    fn from(decision: T) -> Self {
        Self::Ready(decision)
    }
}

impl<T: fmt::Debug> fmt::Debug for MaybeFuture<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ready(decision) => f.debug_tuple("Ready").field(decision).finish(),
            Self::Pending(_) => f.write_str("Pending"),
        }
    }
}
