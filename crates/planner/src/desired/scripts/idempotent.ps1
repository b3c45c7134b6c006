# Runs a command once for each value: idempotent.ps1 KEY VALUE-HASH COMMAND-HASH COMMAND DIRECTORY [ARGUMENT...]
# A run that fails is not remembered: the next attempt runs the command again.
$ErrorActionPreference = 'Stop'
$key, $value, $hash, $command, $directory, $rest = $args
$place = Join-Path $directory "idempotence\$key\$hash\$value"
$mark = Join-Path $place 'done'
if (Test-Path $mark) { Write-Output "${key}: done before for this value"; exit 0 }
New-Item -ItemType Directory -Force -Path $place | Out-Null
& $command @rest
if ($LASTEXITCODE) { exit $LASTEXITCODE }
New-Item -ItemType File -Path $mark | Out-Null
