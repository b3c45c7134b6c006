# Only administrators and the system read what the distribution keeps.
$ErrorActionPreference = 'Stop'
foreach ($path in 'c:\etc\rancher\rke2', 'c:\var\lib\rancher\rke2', 'c:\etc\rancher\node') {
    if (-not (Test-Path $path)) { continue }
    & icacls.exe $path /inheritance:r /grant:r '*S-1-5-32-544:(OI)(CI)F' '*S-1-5-18:(OI)(CI)F' | Out-Null
    if ($LASTEXITCODE) { exit $LASTEXITCODE }
}
