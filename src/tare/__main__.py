from tare.cli import main

main()
