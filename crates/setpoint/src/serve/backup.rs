//! The backup of a running store, for administrators: `GET /debug/setpoint/backup`.

use std::io;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use setpoint_apiserver::{Body, Extra, Pieces};
use setpoint_store::Store;
use tokio::fs::File;
use tokio::io::{AsyncRead, ReadBuf};

/// The path of the backup.
pub(crate) const PATH: &str = "/debug/setpoint/backup";
/// How much of the file is read at a time.
const PIECE_BYTES: usize = 64 * 1024;

/// The path, and what it answers: a file made in `dir`, gone from there before it is sent.
pub(super) fn extra(store: Store, dir: PathBuf) -> Extra {
    let count = Arc::new(AtomicU64::new(0));
    let answer = move || -> setpoint_apiserver::Answering {
        let number = count.fetch_add(1, Ordering::Relaxed);
        let file = dir.join(format!("backup-{}-{number}.tmp", std::process::id()));
        let store = store.clone();
        Box::pin(async move { made(&store, &file).await.map_err(|error| error.to_string()) })
    };
    Extra {
        path: PATH,
        answer: Box::new(answer),
    }
}

async fn made(store: &Store, file: &Path) -> Result<Body, Box<dyn std::error::Error + Send + Sync>> {
    store.backup(file).await?;
    let opened = File::open(file).await;
    tokio::fs::remove_file(file).await?;
    let sent = Sent {
        file: opened?,
        piece: vec![0; PIECE_BYTES],
    };
    Ok(Body::Pieces(Box::pin(sent)))
}

/// A file on its way out.
struct Sent {
    file: File,
    piece: Vec<u8>,
}

impl Pieces for Sent {
    fn poll_piece(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<io::Result<Bytes>>> {
        let this = self.get_mut();
        let mut piece = ReadBuf::new(&mut this.piece);
        if let Err(error) = ready!(Pin::new(&mut this.file).poll_read(context, &mut piece)) {
            return Poll::Ready(Some(Err(error)));
        }
        match piece.filled() {
            [] => Poll::Ready(None),
            bytes => Poll::Ready(Some(Ok(Bytes::copy_from_slice(bytes)))),
        }
    }
}
