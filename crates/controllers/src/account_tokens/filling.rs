//! Fills secrets that were made for the token of an account, and keeps accounts and secrets in step: a secret goes with
//! its account, and an account does not name a secret that is gone.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use k8s_openapi::api::core::v1::{Secret, ServiceAccount};
use serde_json::{Map, Value, json};
use setpoint_api::options::DeleteOptions;
use setpoint_api::{Change, Key, Stored};
use setpoint_runtime::{Client, Context, Controller, Error, Lister, Next, Object, Patch, Reconcile, Typed};
use tokio_util::sync::CancellationToken;

use crate::Config;
use crate::account_tokens::secret::{ACCOUNT_NAME, ACCOUNT_UID, Account, Lacks, TokenSecret, is_token};
use crate::account_tokens::{Tokens, Wanted};

/// The name as kube-controller-manager has it.
pub const NAME: &str = "serviceaccount-token-controller";

/// Runs the controller until stopped. Without somebody to make tokens it has nothing to do.
pub async fn run(context: Context, config: Config, stop: CancellationToken) -> Result<(), Error> {
    let Some(tokens) = config.tokens.clone() else {
        stop.cancelled().await;
        return Ok(());
    };
    let reconciler = Filler {
        secrets: context.lister()?,
        accounts: context.lister()?,
        client: context.client.clone(),
        root_ca: config.root_ca.clone(),
        tokens,
    };
    let secrets = reconciler.secrets.clone();
    Controller::<Work>::new(NAME, reconciler)
        .watches(Secret::resource().group_resource(), |change| {
            Vec::from_iter(work_of(change.object()))
        })
        .watches(ServiceAccount::resource().group_resource(), move |change| {
            bereft(&secrets, change)
        })
        .workers(config.workers(NAME))
        .run(&context, stop)
        .await
}

/// A secret and the account it is of.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
struct Work {
    secret: Key,
    account: String,
}

/// The reconciler.
#[derive(Debug)]
struct Filler {
    secrets: Lister<Secret>,
    accounts: Lister<ServiceAccount>,
    client: Client,
    root_ca: String,
    tokens: Tokens,
}

fn work_of(object: &Stored) -> Option<Work> {
    if !is_token(object) {
        return None;
    }
    let secret: TokenSecret = object.decode().ok()?;
    let account = secret.account().to_owned();
    (!account.is_empty()).then(|| Work {
        secret: object.key().clone(),
        account,
    })
}

/// The secrets of an account that is gone.
fn bereft(secrets: &Lister<Secret>, change: &Change) -> Vec<Work> {
    if !change.is_deletion() {
        return Vec::new();
    }
    let all = secrets.in_namespace(change.key().namespace());
    let works = all.iter().filter_map(|secret| work_of(secret));
    works.filter(|work| work.account == change.key().name()).collect()
}

impl Reconcile<Work> for Filler {
    async fn reconcile(&self, work: &Work) -> Result<Next, Error> {
        let Some(object) = self.secrets.find(&work.secret) else {
            self.forget(work).await?;
            return Ok(Next::Done);
        };
        let secret: TokenSecret = object.decode()?;
        if secret.account() != work.account {
            return Ok(Next::Done);
        }
        match self.account(work).await? {
            Some(account) if secret.is_of(account.uid()) => self.fill(&object, &secret, &account).await?,
            _ => self.delete(&object).await?,
        }
        Ok(Next::Done)
    }
}

impl Filler {
    /// The account, from the server if it is not known here: a secret must not go because its account is new.
    async fn account(&self, work: &Work) -> Result<Option<Typed<ServiceAccount>>, Error> {
        let namespace = work.secret.namespace();
        if let Some(account) = self.accounts.find(&Key::new(namespace, &work.account)) {
            return Ok(Some(account));
        }
        let handle = self.client.namespaced::<ServiceAccount>(namespace);
        match handle.get(&work.account).await {
            Err(status) if status.is_not_found() => Ok(None),
            found => Ok(Some(found?)),
        }
    }

    async fn fill(&self, object: &Stored, secret: &TokenSecret, account: &Stored) -> Result<(), Error> {
        let lacks = secret.lacks(&self.root_ca);
        if lacks == Lacks::NOTHING {
            return Ok(());
        }
        let (namespace, name) = (object.key().namespace(), object.key().name());
        let mut data = Map::new();
        let mut put =
            |key: &str, value: &str| data.insert(key.to_owned(), Value::from(STANDARD.encode(value)));
        if lacks.certificates {
            put("ca.crt", &self.root_ca);
        }
        if lacks.namespace {
            put("namespace", namespace);
        }
        if lacks.token {
            let wanted = Wanted {
                namespace,
                secret: name,
                account: account.key().name(),
                account_uid: account.uid(),
            };
            put("token", &self.tokens.make(wanted).map_err(Error::failed)?);
        }
        let annotations = json!({ACCOUNT_NAME: account.key().name(), ACCOUNT_UID: account.uid()});
        let version = object.resource_version().to_string();
        let metadata = json!({"resourceVersion": version, "annotations": annotations});
        let patch = Patch::merge(&json!({"metadata": metadata, "data": data}))?;
        let handle = self.client.dynamic(Secret::resource(), namespace);
        match handle.patch(name, &patch).await {
            // Whoever was faster wakes the secret again.
            Err(status) if status.is_not_found() || status.is_conflict() => Ok(()),
            written => Ok(written.map(drop)?),
        }
    }

    async fn delete(&self, object: &Stored) -> Result<(), Error> {
        let options = DeleteOptions::of_uid(object.uid());
        let handle = self.client.dynamic(Secret::resource(), object.key().namespace());
        match handle.delete(object.key().name(), options).await {
            Err(status) if status.is_not_found() || status.is_conflict() => Ok(()),
            deleted => Ok(deleted.map(drop)?),
        }
    }

    /// An account no longer names a secret that is gone.
    async fn forget(&self, work: &Work) -> Result<(), Error> {
        let key = Key::new(work.secret.namespace(), &work.account);
        let Some(account) = self.accounts.find(&key) else {
            return Ok(());
        };
        if !account.decode::<Account>()?.names(work.secret.name()) {
            return Ok(());
        }
        let mut document: Value = account.decode()?;
        if let Some(secrets) = document["secrets"].as_array_mut() {
            secrets.retain(|secret| secret["name"] != work.secret.name());
        }
        let handle = self.client.dynamic(ServiceAccount::resource(), key.namespace());
        match handle.update(key.name(), document.to_string()).await {
            Err(status) if status.is_not_found() => Ok(()),
            written => Ok(written.map(drop)?),
        }
    }
}

#[cfg(test)]
mod tests {
    use setpoint_testkit::Cluster;
    use tokio::task::JoinSet;

    use super::*;

    async fn filling() -> (Cluster, JoinSet<Result<(), Error>>) {
        let cluster = Cluster::start().await;
        let config = Config {
            tokens: Some(Tokens::new(|wanted| {
                Ok(format!("token of {}", wanted.account_uid))
            })),
            root_ca: "certificates".to_owned(),
            ..Config::default()
        };
        let mut running = JoinSet::new();
        running.spawn(run(cluster.context(NAME), config, CancellationToken::new()));
        (cluster, running)
    }

    async fn create(cluster: &Cluster, secret: &str, account: &str) {
        let document = json!({
            "metadata": {"name": secret, "namespace": "default", "annotations": {ACCOUNT_NAME: account}},
            "type": "kubernetes.io/service-account-token",
        });
        let handle = cluster.client("test").dynamic(Secret::resource(), "default");
        handle.create(document.to_string()).await.unwrap();
    }

    fn token(cluster: &Cluster) -> Option<String> {
        let secret: Option<Secret> = cluster.find("robot-token");
        let token = secret?.data?.remove("token")?;
        String::from_utf8(token.0).ok()
    }

    #[tokio::test]
    async fn a_secret_gets_its_token_and_goes_with_its_account() {
        let (cluster, _running) = filling().await;
        let accounts = cluster.client("test").namespaced::<ServiceAccount>("default");
        let account = json!({"metadata": {"name": "robot"}, "secrets": [{"name": "robot-token"}]});
        let account: ServiceAccount = serde_json::from_value(account).unwrap();
        let account = accounts.create(&account).await.unwrap();
        create(&cluster, "robot-token", "robot").await;
        cluster.until("a token", |cluster| token(cluster).is_some()).await;
        assert_eq!(token(&cluster), Some(format!("token of {}", account.uid())));
        let secret: Secret = cluster.find("robot-token").unwrap();
        let keys: Vec<String> = secret.data.unwrap().into_keys().collect();
        assert_eq!(keys, ["ca.crt", "namespace", "token"]);
        assert_eq!(secret.metadata.annotations.unwrap()[ACCOUNT_UID], account.uid());
        accounts.delete("robot", DeleteOptions::default()).await.unwrap();
        cluster
            .until("no secret", |cluster| cluster.list::<Secret>().is_empty())
            .await;
    }

    #[tokio::test]
    async fn a_secret_of_nobody_goes_and_an_account_forgets_a_secret_that_is_gone() {
        let (cluster, _running) = filling().await;
        create(&cluster, "lost", "nobody").await;
        cluster
            .until("no secret", |cluster| cluster.list::<Secret>().is_empty())
            .await;
        let accounts = cluster.client("test").namespaced::<ServiceAccount>("default");
        let account =
            json!({"metadata": {"name": "robot"}, "secrets": [{"name": "robot-token"}, {"name": "other"}]});
        let account: ServiceAccount = serde_json::from_value(account).unwrap();
        accounts.create(&account).await.unwrap();
        create(&cluster, "robot-token", "robot").await;
        cluster.until("a token", |cluster| token(cluster).is_some()).await;
        let secrets = cluster.client("test").namespaced::<Secret>("default");
        secrets
            .delete("robot-token", DeleteOptions::default())
            .await
            .unwrap();
        cluster
            .until("one secret named", |cluster| {
                let robot: ServiceAccount = cluster.find("robot").unwrap();
                robot.secrets.is_some_and(|secrets| secrets.len() == 1)
            })
            .await;
    }
}
