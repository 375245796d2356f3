//! The backup of a running store, for administrators: `GET /debug/setpoint/backup`.

use std::io;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use setpoint_apiserver::{Body, ByteStream, CustomRoute};
use setpoint_cli::store::BACKUP_PATH;
use setpoint_store::Store;
use tokio::fs::File;
use tokio::io::{AsyncRead, ReadBuf};

/// The size of the chunks in which the file is sent.
const CHUNK_BYTES: usize = 64 * 1024;

/// The route of the backup. The file is written to `dir` and unlinked before it is sent.
pub(super) fn route(store: Store, dir: PathBuf) -> CustomRoute {
    let count = Arc::new(AtomicU64::new(0));
    let handler = move || -> setpoint_apiserver::RouteFuture {
        let number = count.fetch_add(1, Ordering::Relaxed);
        let file = dir.join(format!("backup-{}-{number}.tmp", std::process::id()));
        let store = store.clone();
        Box::pin(async move {
            stream_backup(&store, &file)
                .await
                .map_err(|error| error.to_string())
        })
    };
    CustomRoute {
        path: BACKUP_PATH,
        handler: Box::new(handler),
    }
}

async fn stream_backup(store: &Store, file: &Path) -> Result<Body, Box<dyn std::error::Error + Send + Sync>> {
    store.backup(file).await?;
    let opened = File::open(file).await;
    tokio::fs::remove_file(file).await?;
    let sent = FileStream {
        file: opened?,
        buffer: vec![0; CHUNK_BYTES],
    };
    Ok(Body::Stream(Box::pin(sent)))
}

/// A file as response body.
struct FileStream {
    file: File,
    buffer: Vec<u8>,
}

impl ByteStream for FileStream {
    fn poll_chunk(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<io::Result<Bytes>>> {
        let this = self.get_mut();
        let mut chunk = ReadBuf::new(&mut this.buffer);
        if let Err(error) = ready!(Pin::new(&mut this.file).poll_read(context, &mut chunk)) {
            return Poll::Ready(Some(Err(error)));
        }
        match chunk.filled() {
            [] => Poll::Ready(None),
            bytes => Poll::Ready(Some(Ok(Bytes::copy_from_slice(bytes)))),
        }
    }
}
