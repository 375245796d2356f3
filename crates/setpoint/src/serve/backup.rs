//! The backup of a running store, for administrators: `GET /debug/setpoint/backup`.

use std::io;
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use setpoint_api::{ApiVerb, HttpVerb, Status, User};
use setpoint_apiserver::{Body, ByteStream, CustomRoute, RouteFuture, RouteRequest, RouteResponse};
use setpoint_auth::authorize::{AccessTarget, Attributes, Authorize};
use setpoint_cli::store::BACKUP_PATH;
use setpoint_store::Store;
use tokio::fs::File;
use tokio::io::{AsyncRead, ReadBuf};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::data_dir::DataDir;

/// The size of the chunks in which the file is sent.
const CHUNK_BYTES: usize = 64 * 1024;
/// How many backups are made and sent at once. Each takes the space of the whole store on disk.
const MAX_BACKUPS: usize = 1;
/// When a client may try again while another backup is being made.
const RETRY_SECONDS: u32 = 10;

/// The route of the backup. The file is written to the data directory and unlinked before it is sent.
pub(super) fn route(stores: &[Store], data_dir: &DataDir) -> CustomRoute {
    let (stores, dir) = (stores.to_vec(), data_dir.dir.clone());
    let count = AtomicU64::new(0);
    let slots = Arc::new(Semaphore::new(MAX_BACKUPS));
    let handler = move |request: RouteRequest<'_>| -> RouteFuture {
        let slot = match admit(request.authorize, request.user, &slots) {
            Ok(slot) => slot,
            Err(status) => return Box::pin(async { Err(status) }),
        };
        let number = count.fetch_add(1, Ordering::Relaxed);
        let file = dir.join(format!("backup-{}-{number}.tmp", std::process::id()));
        // A file has the objects of one revision, and revisions of two stores have nothing in common.
        let [store] = stores.as_slice() else {
            let status =
                Status::bad_request("the objects are in several etcd clusters: back up each of these");
            return Box::pin(async { Err(status) });
        };
        let store = store.clone();
        Box::pin(async move {
            let streamed = stream_backup(&store, &file, slot).await;
            streamed.map(RouteResponse::bytes).map_err(Status::internal)
        })
    };
    CustomRoute {
        path: BACKUP_PATH,
        subpaths: false,
        verbs: &[HttpVerb::Get],
        handler: Box::new(handler),
    }
}

/// The slot for a backup, if the user may make one and no other is being made.
fn admit(
    authorizer: &dyn Authorize,
    user: &User,
    slots: &Arc<Semaphore>,
) -> Result<OwnedSemaphorePermit, Status> {
    if !may_read_everything(authorizer, user) {
        let mut status = Status::forbidden_path(&user.name, HttpVerb::Get.as_str(), BACKUP_PATH);
        status.message += ": a backup requires the permission to get and list every resource in the cluster";
        return Err(status);
    }
    let slot = slots.clone().try_acquire_owned();
    slot.map_err(|_| Status::too_many_requests(RETRY_SECONDS))
}

/// Whether the user may read all objects. The permission to get the path is not enough: a backup has every Secret.
fn may_read_everything(authorizer: &dyn Authorize, user: &User) -> bool {
    let everything = AccessTarget::Resource {
        group: "*",
        resource: "*",
        subresource: "",
        namespace: "",
        name: "",
    };
    let is_allowed = |verb: ApiVerb| {
        let attributes = Attributes::new(verb.as_str(), everything);
        authorizer.authorize(user, &attributes).wait().is_allowed()
    };
    is_allowed(ApiVerb::Get) && is_allowed(ApiVerb::List)
}

async fn stream_backup(
    store: &Store,
    file: &Path,
    slot: OwnedSemaphorePermit,
) -> Result<Body, Box<dyn std::error::Error + Send + Sync>> {
    store.backup(file).await?;
    let opened = File::open(file).await;
    tokio::fs::remove_file(file).await?;
    let sent = FileStream {
        file: opened?,
        buffer: vec![0; CHUNK_BYTES],
        _slot: slot,
    };
    Ok(Body::Stream(Box::pin(sent)))
}

/// A file as response body.
struct FileStream {
    file: File,
    buffer: Vec<u8>,
    /// Held until the client has the file.
    _slot: OwnedSemaphorePermit,
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

#[cfg(test)]
mod tests {
    use setpoint_auth::authorize::{PolicyRule, Reason};
    use setpoint_auth::{Decision, MaybeFuture};

    use super::*;

    /// Allows all users what one of the rules allows.
    struct Rules(Vec<PolicyRule>);

    impl Authorize for Rules {
        fn authorize<'a>(&'a self, _: &'a User, attributes: &'a Attributes<'a>) -> MaybeFuture<'a, Decision> {
            let decision = match self.0.iter().any(|rule| rule.allows(attributes)) {
                true => Decision::Allowed(Reason::None),
                false => Decision::NO_OPINION,
            };
            decision.into()
        }
    }

    #[track_caller]
    fn check(verbs: &[ApiVerb], groups: &[&str], resources: &[&str], expected: Result<(), u16>) {
        let rules = Rules(vec![PolicyRule::for_resources(verbs, groups, resources)]);
        let slots = Arc::new(Semaphore::new(MAX_BACKUPS));
        let admitted = admit(&rules, &User::new("alice", &[]), &slots);
        assert_eq!(admitted.map(drop).map_err(|status| status.code), expected);
    }

    #[test]
    fn a_backup_requires_the_permission_to_read_everything() {
        let read = [ApiVerb::Get, ApiVerb::List];
        check(&read, &["*"], &["*"], Ok(()));
        check(&[], &["*"], &["*"], Err(403));
        check(&[ApiVerb::Get], &["*"], &["*"], Err(403));
        check(&[ApiVerb::List], &["*"], &["*"], Err(403));
        check(&read, &[""], &["*"], Err(403));
        check(&read, &["*"], &["secrets"], Err(403));
        check(&read, &["*"], &["*/*"], Err(403));
    }

    #[test]
    fn one_backup_is_made_at_a_time() {
        let rules = Rules(vec![PolicyRule::for_resources(
            &[ApiVerb::Get, ApiVerb::List],
            &["*"],
            &["*"],
        )]);
        let slots = Arc::new(Semaphore::new(MAX_BACKUPS));
        let first = admit(&rules, &User::new("alice", &[]), &slots).unwrap();
        let second = admit(&rules, &User::new("bob", &[]), &slots).unwrap_err();
        assert_eq!(second.code, 429);
        drop(first);
        assert!(admit(&rules, &User::new("bob", &[]), &slots).is_ok());
    }
}
